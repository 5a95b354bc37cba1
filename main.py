"""What functions-framework loads: ``functions-framework --target cordon``.

A function is imported when it is asked for, so that each process pays for one only. The modules
are imported by their names in the package: loaded by path they would be second copies.
"""

import importlib
import pkgutil
from typing import Any

import functions

_NAMES = sorted(
    module.name for module in pkgutil.iter_modules(functions.__path__) if not module.ispkg
)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"no function {name!r}; there are {', '.join(_NAMES)}")
    from functions.edge import http, log

    log.configure()
    module = importlib.import_module(f"functions.{name}")
    view = http.function(name, module.handle, many=getattr(module, "handle_many", None))
    globals()[name] = view
    return view


def __dir__() -> list[str]:
    return _NAMES
