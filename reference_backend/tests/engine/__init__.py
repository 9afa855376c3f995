"""Tests of the engine, which defers calls: queues, errors, stress, process exit."""
