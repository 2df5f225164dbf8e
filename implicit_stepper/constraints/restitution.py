"""Newton's law of impact: bodies part with a share of the speed with which they met.

    0 <= P_n _|_ v_n+ + e v_n- >= 0         at fixed poses, v_n- < 0 the speed of approach

beside the friction law with the slips after the impact. With friction it can raise energy (Kane and Levinson 1985); such an
impact is refused by its certificate. All contacts of an impact take part at once. Rebounds slower than `SLIGHT` do not
happen, by which repeated ones end.
"""

from __future__ import annotations

import dataclasses

from shapes.arguments import number

SLIGHT = 1e-6  # of sqrt(g L), in scenes of length L: rebounds that last a millionth of its time


@dataclasses.dataclass(frozen=True)
class Newton:
    """`e` in [0, 1], the share of the speed of approach with which bodies part. Raises `ValueError` naming the argument."""

    e: float

    def __post_init__(self):
        value = number("e", self.e)
        if not 0 <= value <= 1:
            raise ValueError(f"`e` = {value} is not in [0, 1]: 0 is an impact without rebound, 1 one without loss.")
        object.__setattr__(self, "e", value)
