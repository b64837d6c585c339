from walkeeper.cli import main

main()
