"""The console in a real browser, which the tests of a process share."""
