"""Measuring this machine: time, bandwidth, arithmetic, counters, and what it all ran on."""
