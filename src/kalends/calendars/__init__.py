"""Calendars, access lists, opening hours, and the resource that combines them. No I/O."""

from kalends.calendars.bookings import Booking, State
from kalends.calendars.capacity import CapacityCalendar
from kalends.calendars.engine import Calendar, new_calendar
from kalends.calendars.profiles import Step
from kalends.calendars.recurrence.clashes import first_clash, first_clash_of_any, is_ever_open
from kalends.calendars.recurrence.recurrence import Recurrence
from kalends.calendars.recurrence.windows import Windows
from kalends.calendars.resource import KeptSlots, ResourceCalendar, unknown_resource
from kalends.calendars.rules.access import (
    AccessList,
    AccessRule,
    Membership,
    is_meant,
    open_access,
)
from kalends.calendars.rules.blackouts import Blackout, Blackouts
from kalends.calendars.rules.buffers import Buffer
from kalends.calendars.rules.owner_rules import HeadStart, OwnerRules, RuleScript
from kalends.calendars.rules.prices import PriceRule, Prices
from kalends.calendars.rules.usage_limits import Approval, Limit, Limits, UsageShare, weeks
from kalends.calendars.unit import UnitCalendar

__all__ = [
    "AccessList",
    "AccessRule",
    "Approval",
    "Blackout",
    "Blackouts",
    "Booking",
    "Buffer",
    "Calendar",
    "CapacityCalendar",
    "HeadStart",
    "KeptSlots",
    "Limit",
    "Limits",
    "Membership",
    "OwnerRules",
    "PriceRule",
    "Prices",
    "Recurrence",
    "ResourceCalendar",
    "RuleScript",
    "State",
    "Step",
    "UnitCalendar",
    "UsageShare",
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
