"""Signals of the device: power, idle time, load, temperature."""

from service.device.reading import DeviceSnapshot, Moment, Reading
from service.device.sensors import Device

__all__ = ["Device", "DeviceSnapshot", "Moment", "Reading"]
