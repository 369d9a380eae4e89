"""What chooses for a purpose sees neither test nodes nor test edges, and takes no other choice for noise."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from clnr.datasets.splits import split_of
from clnr.embedding.defaults import LABELS, LINKS, choose_method
from clnr.embedding.fit_settings import Settings
from clnr.embedding.scoring import judges
from clnr.embedding.scoring.judges import judge_for, of_labels, settle
from clnr.embedding.scoring.scores import labelled_nodes
from clnr.engine import cpu_engine
from clnr.evaluation import hold_out
from tests.conftest import tiny

pytestmark = pytest.mark.usefixtures("options")


def labelled(nodes=200, classes=2):
    graph = tiny(nodes, 4 * nodes)
    return dataclasses.replace(graph, labels=np.random.default_rng(0).integers(0, classes, nodes))


def test_test_nodes_do_not_choose(monkeypatch):
    graph = labelled()
    split = split_of(graph, 3)
    monkeypatch.setattr(judges, "of_labels", lambda *given: given)
    (nodes, labels), links = judge_for(LABELS, labelled_nodes(graph, 0), None, 3)
    assert links is None
    np.testing.assert_array_equal(nodes, np.sort(np.concatenate([split.train, split.validation])))
    changed = graph.labels.copy()
    changed[split.test] = 1 - changed[split.test]
    (_, others), _ = judge_for(LABELS, labelled_nodes(dataclasses.replace(graph, labels=changed), 0), None, 3)
    np.testing.assert_array_equal(labels, others)


@pytest.mark.parametrize(("purpose", "bound"), [(LABELS, "MOST_NODES"), (None, "MOST_NODES_OF_NOTE")])
def test_of_many_labelled_nodes_some_choose(monkeypatch, purpose, bound):
    monkeypatch.setattr(judges, bound, 25)
    judge, _ = judge_for(purpose, labelled_nodes(labelled(), 0), None, 0)
    assert len(judge.nodes) == 25
    assert (np.diff(judge.nodes) > 0).all()


def test_edges_that_choose_are_not_those_that_score(monkeypatch):
    graph = tiny(200, 800)
    held = hold_out(graph, 0.2, 0)
    monkeypatch.setattr(judges, "of_edges", lambda links: links)
    chosen_by, left = judge_for(LINKS, labelled_nodes(graph, 0), held, 0)

    def pairs(links):
        return {tuple(pair) for pair in np.concatenate([links.positives, links.negatives], 1).T.tolist()}

    assert not pairs(chosen_by) & pairs(left)
    assert pairs(chosen_by) | pairs(left) == pairs(held)


def test_a_choice_must_be_better_by_more_than_noise():
    judge = of_labels(np.arange(400), np.zeros(400, np.int64))
    usual, little, much = (np.arange(400) < count for count in (200, 203, 260))
    assert judge.best(usual, {"little": little}) is None
    assert judge.best(usual, {"little": little, "much": much}) == "much"
    assert judge.best(much, {"usual": usual}) is None
    assert judge.best(usual, {"same": usual.copy()}) is None


def test_what_is_settled_is_told():
    graph = labelled(400)
    judge, _ = judge_for(LABELS, labelled_nodes(graph, 0), None, 0)
    noise = torch.randn(len(judge.nodes), 4, generator=torch.Generator().manual_seed(0))
    labels = np.unique(graph.labels[judge.nodes], return_inverse=True)[1]
    telling = torch.from_numpy(labels).double()[:, None] + 0.01 * noise
    asked, plain = (Settings(engine=cpu_engine(), **choose_method(None, purpose=purpose)) for purpose in (LABELS, None))
    changes, (told,) = settle(asked, judge, noise, [None, noise, telling])
    assert changes == asked.tried[2]
    assert told.startswith(f"labels choose mix={changes['mix']}: accuracy 100.0 against ")
    assert told.endswith(f" on {len(judge.nodes)} labelled nodes")
    kept, (told_of_none,) = settle(asked, judge, telling, [noise, noise])
    assert (kept, "none of 2 alternatives is better" in told_of_none) == ({}, True)
    assert settle(plain, judge, noise, [None, noise, telling]) == ({}, [told.replace("labels", "--for labels would", 1)])
    assert settle(plain, judge, telling, [noise, noise]) == ({}, [])


def test_without_a_purpose_labels_tell_only_if_there_are_enough():
    assert judge_for(None, labelled_nodes(labelled(9), 0), None, 0) == (None, None)
    assert judge_for(None, labelled_nodes(labelled().without_labels(), 0), None, 0) == (None, None)
