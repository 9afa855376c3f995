"""Tests of the engine, which holds calls back: queues, errors, stress, ends of processes."""
