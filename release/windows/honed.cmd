@"%~dp0python\python.exe" -I -m honed %*
