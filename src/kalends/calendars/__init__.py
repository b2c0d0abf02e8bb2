"""Floor 1: calendars, access lists, opening hours, and the resource that combines them. No I/O."""

from kalends.calendars.access import AccessList, Rule, open_access
from kalends.calendars.bookings import Booking, State
from kalends.calendars.capacity import CapacityCalendar
from kalends.calendars.engine import Calendar, new_calendar
from kalends.calendars.fleet import Fleet, Together, WeightedStart
from kalends.calendars.profiles import Step
from kalends.calendars.recurring.clashes import first_clash, first_clash_of_any, is_ever_open
from kalends.calendars.recurring.recurrence import Recurrence
from kalends.calendars.recurring.windows import Windows
from kalends.calendars.resource import ResourceCalendar, unknown_resource
from kalends.calendars.unit import UnitCalendar

__all__ = [
    "AccessList",
    "Booking",
    "Calendar",
    "CapacityCalendar",
    "Fleet",
    "Recurrence",
    "ResourceCalendar",
    "Rule",
    "State",
    "Step",
    "Together",
    "UnitCalendar",
    "WeightedStart",
    "Windows",
    "first_clash",
    "first_clash_of_any",
    "is_ever_open",
    "new_calendar",
    "open_access",
    "unknown_resource",
]
