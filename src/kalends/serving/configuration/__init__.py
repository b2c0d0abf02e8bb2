"""The configuration of a server as typed values, and the one parser of its TOML text.

Parsing is pure: no file is opened here, and relative paths are taken from the directory of the
configuration. Field names with a unit (`grain_s`) are written without it in the file (``grain =
"15m"``), because there a duration is a text with a unit. An error names the path of the
fault; for an unknown field also the one that was probably meant.

sections   the base of all sections, and common types
rules      resources, and the rules of their owner
machines   machines of this host, and batch systems
keys       keys and certificates that a server trusts
members    other servers that a server calls
notices    mail and webhooks
servers    a site, a broker and a virtual site
parser     the file to these values
token_risks   settings that allow another server to use a user's token
"""

from kalends.serving.configuration.keys import (
    CallsConfiguration,
    ClaimsConfiguration,
    KeyConfiguration,
    TlsConfiguration,
)
from kalends.serving.configuration.machines import (
    BatchSystemConfiguration,
    JobLimitsConfiguration,
    MachineConfiguration,
)
from kalends.serving.configuration.members import (
    NearConfiguration,
    PeerConfiguration,
)
from kalends.serving.configuration.notices import (
    ANY_HOST,
    BrokerNotices,
    NoticeRules,
    NoticesConfiguration,
)
from kalends.serving.configuration.parser import (
    CONFIGURATION_BYTES_MAX,
    Configuration,
    check_configuration,
    configuration_of,
    load_configuration,
)
from kalends.serving.configuration.rules import (
    AccessConfiguration,
    AccountConfiguration,
    BlackoutConfiguration,
    BufferConfiguration,
    DecideConfiguration,
    HoursConfiguration,
    LimitConfiguration,
    PriceConfiguration,
    PriorityConfiguration,
    ResourceConfiguration,
    RulesConfiguration,
)
from kalends.serving.configuration.sections import (
    MAIL_ADDRESS,
    DurationS,
    StorePlace,
)
from kalends.serving.configuration.servers import (
    AgentsConfiguration,
    BrokerConfiguration,
    DeputyConfiguration,
    GrantConfiguration,
    ListeningConfiguration,
    SiteConfiguration,
    SiteLimits,
    VirtualConfiguration,
)

__all__ = [
    "ANY_HOST",
    "CONFIGURATION_BYTES_MAX",
    "MAIL_ADDRESS",
    "AccessConfiguration",
    "AccountConfiguration",
    "AgentsConfiguration",
    "BatchSystemConfiguration",
    "BlackoutConfiguration",
    "BrokerConfiguration",
    "BrokerNotices",
    "BufferConfiguration",
    "CallsConfiguration",
    "ClaimsConfiguration",
    "Configuration",
    "DecideConfiguration",
    "DeputyConfiguration",
    "DurationS",
    "GrantConfiguration",
    "HoursConfiguration",
    "JobLimitsConfiguration",
    "KeyConfiguration",
    "LimitConfiguration",
    "ListeningConfiguration",
    "MachineConfiguration",
    "NearConfiguration",
    "NoticeRules",
    "NoticesConfiguration",
    "PeerConfiguration",
    "PriceConfiguration",
    "PriorityConfiguration",
    "ResourceConfiguration",
    "RulesConfiguration",
    "SiteConfiguration",
    "SiteLimits",
    "StorePlace",
    "TlsConfiguration",
    "VirtualConfiguration",
    "check_configuration",
    "configuration_of",
    "load_configuration",
]
