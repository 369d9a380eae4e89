"""Engines: the few hot operations on each device, behind one interface."""
# ruff: noqa: F401

from __future__ import annotations

from clnr.engine.base import Engine
from clnr.engine.choice import choose, choose_again, cpu_engine, gpu_engine
from clnr.engine.operators import Operators, unit_rows, unit_rows_
from clnr.engine.reference import Reference
from clnr.engine.sparse_matrix import SparseMatrix, to_sparse_matrix
from clnr.engine.streams import capture, own_stream
from clnr.engine.view import DeviceGraph, Drop, Dropout, Mask, Neighbors, View
