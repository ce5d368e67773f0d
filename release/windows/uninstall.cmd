@echo off
rem As administrator: stops and removes the service and the program; its data stay in ProgramData\Hone.
setlocal
set "target=%ProgramFiles%\Hone"
rem An installation may have stopped before it made the service.
sc query honed >nul 2>&1
if errorlevel 1 goto program
call "%target%\honed.cmd" service uninstall
if errorlevel 1 exit /b 1
:program
rmdir /s /q "%target%\python"
exit /b %errorlevel%
