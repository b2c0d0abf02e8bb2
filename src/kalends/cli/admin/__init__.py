"""The commands of ``kalends admin``, for owners and operators, by what they are about."""
