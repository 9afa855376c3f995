"""Tests of hccl on several ranks."""
