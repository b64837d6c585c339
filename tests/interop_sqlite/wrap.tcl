# wrap.tcl SCRIPT ARGUMENT...: a script of SQLite's own tests in testfixture, with the default VFS of default_vfs.c. The
# processes that the script starts have it too (run.py, testfixture).

proc load_default_vfs {} {
  sqlite3 loader :memory:
  sqlite3_enable_load_extension loader 1
  loader eval {SELECT load_extension($::env(WALKEEPER_SQLITE_EXTENSION), 'sqlite3_defaultvfs_init')}
  loader close
}

# sqlite3_initialize makes SQLite's own VFS the default; opening the loader calls it too.
rename sqlite3_initialize their_initialize
proc sqlite3_initialize {} {
  set rc [their_initialize]
  if {!$::loading} {
    set ::loading 1
    catch load_default_vfs
    set ::loading 0
  }
  return $rc
}

# Cases with several processes are left out: one process has a database of walkeeper. This is how the tests leave them out.
set G(valgrind) 1
set loading 0
load_default_vfs
set argv0 [lindex $argv 0]
set argv [lrange $argv 1 end]
source $argv0
