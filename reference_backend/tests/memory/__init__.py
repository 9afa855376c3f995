"""Tests of device memory: the arena, the allocator, storages, pinned memory."""
