# The core may call memory functions and assert, and nothing else of the C library. Where the processor may lack an instruction that
# counts bits, the compiler calls its own library (__popcountdi2).
bad=$(nm -u --format=posix "$1" | awk '$2 == "U" { print $1 }' | sort -u |
	grep -vxE '(mem|__mem)(cpy|move|set|cmp)(_chk)?|__assert_fail|__stack_chk_fail|__cpu_model|__cpu_indicator_init|__popcountdi2|__(asan|ubsan|tsan|gcov|sanitizer)_.*|wk_.*|_GLOBAL_OFFSET_TABLE_|__gcov_.*|__start_.*|__stop_.*')
[ -z "$bad" ] || { echo "the core reaches outside: $bad"; exit 1; }
