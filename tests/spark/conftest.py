"""One cluster for all tests."""

import pytest

import cluster


@pytest.fixture(scope="session")
def settings(tmp_path_factory):
    with cluster.up(tmp_path_factory.mktemp("cluster")) as made:
        yield made
