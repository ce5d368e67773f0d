@echo off
rem As administrator: stops and removes the service and the program; its data stay in ProgramData\Hone.
setlocal
set "target=%ProgramFiles%\Hone"
call "%target%\honed.cmd" service uninstall
if errorlevel 1 exit /b 1
rmdir /s /q "%target%\python"
exit /b %errorlevel%
