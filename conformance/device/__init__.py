"""Operations on the device under test in this process."""
