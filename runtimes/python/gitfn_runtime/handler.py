"""Finds the function that answers requests."""
import importlib
import sys


def load(settings):
    """Imports the module from its folder and gives its function. Raises what the import raised,
    or says what is missing."""
    if settings.path not in sys.path:
        sys.path.insert(0, settings.path)
    module = importlib.import_module(settings.module)
    function = getattr(module, settings.function, None)
    if not callable(function):
        raise AttributeError(f'{settings.module}.py has no function "{settings.function}"')
    return function
