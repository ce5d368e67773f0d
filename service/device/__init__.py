"""What the device says of itself: power, idle, load, heat."""

from service.device.reading import DeviceSnapshot, Moment, Reading
from service.device.sensors import Device

__all__ = ["Device", "DeviceSnapshot", "Moment", "Reading"]
