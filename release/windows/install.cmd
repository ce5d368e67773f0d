@echo off
rem As administrator: copies Hone to "Program Files", in the place of an older one, and starts it as a service.
setlocal
set "target=%ProgramFiles%\Hone"
if exist "%target%\python\python.exe" call "%~dp0uninstall.cmd"
if errorlevel 1 exit /b 1
"%~dp0python\python.exe" -I -c "import shutil, sys; shutil.copytree(*sys.argv[1:], dirs_exist_ok=True)" "%~dp0." "%target%"
if errorlevel 1 exit /b 1
rem The service's account may not write there.
"%target%\python\python.exe" -I -m compileall -q "%target%\python\Lib\site-packages"
call "%target%\honed.cmd" service install
exit /b %errorlevel%
