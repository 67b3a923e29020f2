"""Services for all tests of the folder."""

from tests.runtime.service.operations.ran import ran, shop
from tests.runtime.service.services import service, service_with_tokens

__all__ = ["ran", "service", "service_with_tokens", "shop"]
