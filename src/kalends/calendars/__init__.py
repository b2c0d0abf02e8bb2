"""Floor 1: calendars, access lists, opening hours, and the resource that combines them. No I/O."""

from kalends.calendars.access import AccessList, Rule, is_meant, open_access
from kalends.calendars.blackouts import Blackout, Blackouts
from kalends.calendars.bookings import Booking, State
from kalends.calendars.capacity import CapacityCalendar
from kalends.calendars.engine import Calendar, new_calendar
from kalends.calendars.fleet import Fleet, Together, WeightedStart
from kalends.calendars.limiting import Limit, Limits, Share
from kalends.calendars.owners_rules import HeadStart, OwnersRules
from kalends.calendars.profiles import Step
from kalends.calendars.recurring.clashes import first_clash, first_clash_of_any, is_ever_open
from kalends.calendars.recurring.recurrence import Recurrence
from kalends.calendars.recurring.windows import Windows
from kalends.calendars.resource import ResourceCalendar, unknown_resource
from kalends.calendars.unit import UnitCalendar
from kalends.calendars.weeks import weeks

__all__ = [
    "AccessList",
    "Blackout",
    "Blackouts",
    "Booking",
    "Calendar",
    "CapacityCalendar",
    "Fleet",
    "HeadStart",
    "Limit",
    "Limits",
    "OwnersRules",
    "Recurrence",
    "ResourceCalendar",
    "Rule",
    "Share",
    "State",
    "Step",
    "Together",
    "UnitCalendar",
    "WeightedStart",
    "Windows",
    "first_clash",
    "first_clash_of_any",
    "is_ever_open",
    "is_meant",
    "new_calendar",
    "open_access",
    "unknown_resource",
    "weeks",
]
