"""What the device says of itself: power, idle, load, heat."""

from service.device.reading import Moment, Reading, Snapshot
from service.device.sensors import Device

__all__ = ["Device", "Moment", "Reading", "Snapshot"]
