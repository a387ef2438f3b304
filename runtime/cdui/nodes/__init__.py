"""The built-in nodes, a module a category; each ends with its list NODES."""
