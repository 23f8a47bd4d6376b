from deq_program import main

main()
