"""The fake keeps the contract that the real cluster keeps."""

import pytest

from tests.unit.contract import ClusterContract
from tests.unit.fake import FakeCluster


class TestFakeCluster(ClusterContract):
    @pytest.fixture
    def cluster(self) -> FakeCluster:
        return FakeCluster(page_size=2)

    @pytest.fixture
    def namespace(self) -> str:
        return "default"
