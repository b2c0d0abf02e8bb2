"""Search over thousands of calendars at once, kept up to date booking by booking."""

from kalends.calendars.fleet.fleet import STARTS_MAX, Fleet, Together, WeightedStart
from kalends.calendars.fleet.terms import Weight

__all__ = ["STARTS_MAX", "Fleet", "Together", "Weight", "WeightedStart"]
