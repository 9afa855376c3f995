"""report"""
def add(commands):  # type: ignore
    pass
