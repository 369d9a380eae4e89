from clnr.paper.library import Library
from clnr.paper.scope import Scope
from clnr.paper.sheet import Sheet


def sheet(scope: Scope, library: Library) -> Sheet:
    return Sheet("claims", "Claims", ("a",), ((),))
