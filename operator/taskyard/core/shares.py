"""Who may have how many slots of those that are short, by weight."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Shares(Generic[K]):
    """How those who compete divide what they have, and the one slot that is left."""

    weights: Mapping[K, int]
    of_all: int
    pool: int

    @classmethod
    def of(cls, weights: Mapping[K, int], slots: Callable[[K], int]) -> Self:
        return cls(weights, sum(weights.values()), 1 + sum(map(slots, weights)))

    def excess(self, member: K, slots: int) -> float:
        """How far above its share it would be with one slot more, by its weight; 0 for all who would not.

        A share is rounded up: of five slots and thirty members nobody has a whole one, and all may have one.
        """
        weight = self.weights[member]
        share = -(-self.pool * weight // self.of_all)
        return max(0, slots + 1 - share) / weight
