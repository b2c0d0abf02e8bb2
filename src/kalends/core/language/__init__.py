"""The text form of requests; it means the same as the Python form in `kalends.core.requests`.

::

    alternatives = alternative { "|" alternative }
    alternative  = part { "+" part } [ weight ]               all at one time
    part         = term windows  |  "(" alternatives ")" windows [ weight ]
    windows      = { "between" window  |  "prefer" window weight }
    window       = clock clock [ zone ]  |  time time [ zone ]   every day, or once
    term         = what [ ":" amount ] [ "@" offset ] [ "for" duration ]
    what         = site "/" name  |  [ count "of" ] "{" attribute { "," attribute } "}"
    amount       = units [ ".." units ]  |  "(" units ".." units weight ")"
    attribute    = comparison [ weight ]                      with a weight: need not be met
    weight       = "weight" number
    comparison   = name ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value
                 | name "in" "(" value { "," value } ")"
    value        = number | "true" | "false" | word | quoted text
    offset       = [ "+" | "-" ] duration                     from the common start

Spaces and line ends mean nothing except between words. `parse_alternatives` and
`format_alternatives` are each other's inverse; brackets are multiplied out when they are read. Only
brackets nest, to a limit, and there is no backtracking: reading takes time in proportion to the text.
"""

from kalends.core.language.formatter import format_alternatives, format_comparison, format_term
from kalends.core.language.parser import parse_alternatives
from kalends.core.language.request_text import parse_request

__all__ = [
    "format_alternatives",
    "format_comparison",
    "format_term",
    "parse_alternatives",
    "parse_request",
]
