"""Cities: places on a road graph, the ways between them, towns by seed."""
