"""Golden files of the reference; whatever makes them never imports colibri_lab."""
