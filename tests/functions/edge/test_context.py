"""Settings come from the environment, and a wrong one is named."""

import pytest

from functions.edge.context import Settings


def test_the_defaults_hold_where_nothing_is_said() -> None:
    assert Settings.from_environment({}) == Settings()


def test_what_is_said_holds() -> None:
    settings = Settings.from_environment(
        {
            "GROUNDCREW_NAMESPACE": "gc",
            "GROUNDCREW_CALL_SECONDS": "2.5",
            "POD_NAME": "cordon-1",
            "NODE_NAME": "n1",
        }
    )
    assert settings == Settings(
        namespace="gc", call_seconds=2.5, pod_name="cordon-1", pod_node="n1"
    )


@pytest.mark.parametrize(
    ("environ", "places"),
    [
        ({"THREADS": "8"}, 6),
        ({"THREADS": "1"}, 1),
        ({"THREADS": "8", "GROUNDCREW_MAX_IN_FLIGHT": "3"}, 3),
    ],
)
def test_fewer_calls_are_taken_than_there_are_threads(environ: dict[str, str], places: int) -> None:
    assert Settings.from_environment(environ).max_in_flight == places


@pytest.mark.parametrize("text", ["many", "0", "-1", "nan"])
@pytest.mark.parametrize("name", ["THREADS", "GROUNDCREW_CALL_SECONDS"])
def test_a_number_that_is_none_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"{name}='{text}' is no number above 0"):
        Settings.from_environment({name: text})
