"""The commands of ``kalends admin``, each in its own module under the name `command`."""
