"""Ready agents and the actions of a machine: chat, host, person, files, commands."""
