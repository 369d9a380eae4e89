from clnr.cli import main

main()
