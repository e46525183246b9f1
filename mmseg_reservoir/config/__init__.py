"""Options, presets and the builder: the only place where options become objects."""
