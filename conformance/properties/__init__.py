"""The properties of the suite: for each subject kind, the requirements on its subjects and the checks that
verify them.
"""
