"""Lengths of time and shares, as people write them in a policy and on the command line."""

import re
from datetime import timedelta
from typing import ClassVar


class Duration(timedelta):
    """A length of time as Kubernetes users write it: ``90s``, ``5m``, ``1h30m``, ``7d``."""

    _PART = re.compile(r"(\d+)(ms|[smhd])")
    _UNITS: ClassVar = {
        "ms": "milliseconds",
        "s": "seconds",
        "m": "minutes",
        "h": "hours",
        "d": "days",
    }

    @classmethod
    def parse(cls, text: object) -> "Duration":
        if not isinstance(text, str) or not re.fullmatch(r"(\d+(ms|[smhd]))+", text):
            raise ValueError(f"{text!r} is no duration; write 90s, 5m, 1h30m or 7d")
        parts = {cls._UNITS[unit]: int(number) for number, unit in cls._PART.findall(text)}
        return cls(**parts)

    def __str__(self) -> str:
        seconds = int(self.total_seconds())
        text = ""
        for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
            count, seconds = divmod(seconds, size)
            text += f"{count}{unit}" if count else ""
        return text or "0s"


class Share(float):
    """A part of a whole, written ``10%``; kept as 0.1."""

    @classmethod
    def parse(cls, text: object) -> "Share":
        match = re.fullmatch(r"(\d+(?:\.\d+)?)%", text) if isinstance(text, str) else None
        if not match or not 0 <= float(match[1]) <= 100:
            raise ValueError(f"{text!r} is no share; write 10% (0% to 100%)")
        return cls(float(match[1]) / 100)

    def of(self, whole: int, *, at_least: int = 0) -> int:
        """Whole nodes of ``whole``, rounded down: 10 % of 15 is one."""
        return max(at_least, int(whole * self + 1e-9))

    def __str__(self) -> str:
        return f"{self * 100:g}%"
