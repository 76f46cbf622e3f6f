"""The texts that the compiler reads in these tests are as strict as files."""

import pytest
from tests.adapters.sources_contract import Make, SourcesContract
from tests.definition.world import TextWorld


class TestTextWorld(SourcesContract):
    @pytest.fixture
    def make(self) -> Make:
        return TextWorld
