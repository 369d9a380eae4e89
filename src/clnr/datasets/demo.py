"""A small shop as tables, the same on every machine: customers, products and orders, with groups to find."""

from __future__ import annotations

import csv
import io
from datetime import date, timedelta
from pathlib import Path
from random import Random

from clnr.support.storage import OwnFiles, check_folder, reserve_folder, write_folder

_CUSTOMERS, _PRODUCTS, _ORDERS = 400, 100, 4_000
# What a group buys and writes about; 20 % of what a customer buys and writes is of any.
_GROUPS = {
    "garden": ("spade hose seeds pot fence lamp bench gloves", "green roses soil weekend plants quiet"),
    "kitchen": ("pan knife bowl kettle whisk apron scale oven", "dinner recipes friends spicy bread guests"),
    "sport": ("ball racket shoes rope mat bottle bike helmet", "training team early run matches fit"),
    "study": ("notebook desk pencil folder chair atlas paper clip", "exams reading office maps evenings notes"),
}
_OTHERS = 20
_FIRST = "Ada Ben Cleo Dan Eva Finn Gus Hana Ivo Jana Kofi Lea Max Nia Omar Pia Quinn Rosa Sami Tess"
_LAST = "Abel Brandt Costa Dahl Eder Fuchs Greco Haas Ito Jansen Klein Lund Moreau Novak Okoye Peters Rossi Sato"
_CITIES = "Bergen Graz Lyon Porto"
_ADJECTIVES = "light large steel small folding classic"
_DAYS, _FIRST_DAY = 730, date(2024, 1, 1)
OWN_FILES = OwnFiles(("customers.csv", "products.csv", "orders.csv"), lambda folder: (folder / "orders.csv").is_file())


def write_demo(folder: Path, force: bool = False) -> Path:
    """Write customers.csv, products.csv and orders.csv into a folder."""
    with reserve_folder(folder):
        check_folder(folder, force, OWN_FILES)
        with write_folder(folder, force, OWN_FILES) as part:
            for name, rows in demo_tables().items():
                lines = io.StringIO(newline="")
                csv.writer(lines, lineterminator="\n").writerows(rows)
                (part / f"{name}.csv").write_bytes(lines.getvalue().encode())
    return folder


def demo_tables() -> dict[str, list[tuple[object, ...]]]:
    """The rows of each table, of which the first has the names of columns.

    A fifth of the customers have a segment, the group that they buy and write about. Only whole numbers are drawn, so that no
    machine rounds otherwise.
    """
    random = Random("clnr")
    names = list(_GROUPS)
    customers: list[tuple[object, ...]] = [("customer_id", "name", "city", "age", "joined", "about", "segment")]
    products: list[tuple[object, ...]] = [("product_id", "name", "price", "description")]
    orders: list[tuple[object, ...]] = [("order_id", "customer_id", "product_id", "amount", "channel", "ordered")]

    def one(words: str) -> str:
        return random.choice(words.split())

    def of(group: str) -> str:
        """A group, or now and then any."""
        return random.choice(names) if random.randrange(100) < _OTHERS else group

    stock: dict[str, list[int]] = {name: [] for name in names}
    for number in range(1, _PRODUCTS + 1):
        group = names[number % len(names)]
        noun, adjective = one(_GROUPS[group][0]), one(_ADJECTIVES)
        stock[group].append(number)
        words = f"{adjective} {noun} for {one(_GROUPS[of(group)][1])}"
        products.append((number, f"{adjective} {noun} {number}", random.randrange(300, 12_000) / 100, words))
    groups = [random.choice(names) for _ in range(_CUSTOMERS)]
    for number, group in enumerate(groups, 1):
        age = 20 + 6 * names.index(group) + sum(random.randrange(12) for _ in range(3))
        joined = _FIRST_DAY - timedelta(days=random.randrange(_DAYS))
        about = " ".join(one(_GROUPS[of(group)][1]) for _ in range(3))
        name, segment = f"{one(_FIRST)} {one(_LAST)} {number}", group if number % 5 == 0 else ""
        customers.append((number, name, one(_CITIES), age, joined, about, segment))
    for number in range(1, _ORDERS + 1):
        customer = random.randrange(_CUSTOMERS)
        product, day = random.choice(stock[of(groups[customer])]), _FIRST_DAY + timedelta(days=random.randrange(_DAYS))
        amount, channel = random.randrange(200, 9_000) / 100, one("web web app shop")
        orders.append((number, customer + 1, product, amount, channel, day))
    return {"customers": customers, "products": products, "orders": orders}
