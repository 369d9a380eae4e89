"""Rows of a last linear layer that need not all be computed."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from clnr.engine.dense import PLAIN, Dense, inverse_deviation
from clnr.engine.products import at_least_float32

Moments = tuple[Tensor, Tensor]

_ROWS_PER_SAMPLED_ROW = 3


class LazyLinear:
    r"""The rows :math:`P W + b` of a linear layer, computed only when needed; or, without a weight, the rows of a tensor.

    ``rows`` restricts it to some rows. The others are then never computed, yet ``column_moments`` stays that of all rows; if
    only some are given, ``moments`` are those of all.
    """

    def __init__(
        self,
        inputs: Tensor,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        dense: Dense = PLAIN,
        moments: Callable[[], Moments] | None = None,
    ):
        self._inputs, self._weight, self._bias, self.dense = inputs, weight, bias, dense
        self._index: Tensor | None = None
        self._all_moments = moments
        self._rows: Tensor | None = None
        self._moments: Moments | None = None

    def __len__(self) -> int:
        return len(self._inputs if self._index is None else self._index)

    def rows(self, index: Tensor) -> LazyLinear:
        """Only these rows, in this order."""
        some = LazyLinear(self._inputs, self._weight, self._bias, self.dense, self._all_moments)
        some._index = index if self._index is None else self._index.index_select(0, index)
        return some

    def sampling_pays(self, count: int) -> bool:
        """Whether ``count`` rows and the column moments are cheaper to compute than all rows."""
        return self._weight is None or len(self) >= _ROWS_PER_SAMPLED_ROW * count

    def materialize(self) -> Tensor:
        """The rows as a tensor, in float32 or better."""
        if self._rows is None:
            self._rows = at_least_float32(self._compute())
        return self._rows

    def _compute(self) -> Tensor:
        rows = self._inputs if self._index is None else self._inputs.index_select(0, self._index)
        if self._weight is None or self._bias is None:
            return rows
        return self.dense.linear(rows, self._weight.to(rows.dtype), self._bias)

    def standardized(self) -> LazyLinear:
        """Columns to mean 0 and standard deviation 1, over all rows, including those that ``rows`` left out."""
        if self._index is None and self._all_moments is None:
            return LazyLinear(self.dense.standardise(self._compute()), dense=self.dense)
        variance, mean = self.column_moments()
        z = self.dense.standardised(self.materialize(), variance, mean)
        return self.rescaled(z, mean, lambda: inverse_deviation(variance, mean))

    def column_moments(self) -> Moments:
        """Variance (divisor n) and mean of each column over all rows, including those that ``rows`` left out."""
        if self._moments is None:
            self._moments = self._measure() if self._all_moments is None else self._all_moments()
        return self._moments

    def _measure(self) -> Moments:
        if self._index is None:
            return self.dense.column_moments(self.materialize())
        if self._weight is None or self._bias is None:
            return self.dense.column_moments(self._inputs)
        rows, variance, mean = self.dense.sample_linear(self._inputs, self._weight, self._bias, self._index)
        self._rows = rows if self._rows is None else self._rows
        return variance, mean

    def rescaled(self, z: Tensor, shift: Tensor, scale: Callable[[], Tensor]) -> LazyLinear:
        """Rows ``z``, equal to ``(rows - shift) * scale`` of these; the moments of all rows change in the same way."""

        def moments() -> Moments:
            variance, mean = self.column_moments()
            return variance * scale().square(), (mean - shift) * scale()

        whole = self._index is None and self._all_moments is None
        return LazyLinear(z, dense=self.dense, moments=None if whole else moments)
