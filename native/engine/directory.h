/*
 * directory.h: what the other rooms of the engine may use of engine/directory/. Private.
 *
 * What a directory is: making, opening, locking and closing it, its superblock, its handles, its keeper thread, its backup.
 */
#ifndef WK_ENGINE_ROOM_DIRECTORY_H
#define WK_ENGINE_ROOM_DIRECTORY_H
#include "engine/directory/directory.h"       /* open and close */
#include "engine/directory/directory_lock.h"  /* who may write */
#include "engine/directory/directory_make.h"  /* folders and superblock of a new directory */
#include "engine/directory/files.h"           /* the files that are there, at an open */
#include "engine/directory/handles.h"         /* what public pointers point to; entering a call */
#include "engine/directory/keeper.h"          /* wakes the keeper thread */
#include "engine/directory/owned_space.h"     /* space that a copied file lacks */
#include "engine/directory/places.h"          /* where files lie */
#include "engine/directory/probe.h"           /* the durable-write method of a device */
#include "engine/directory/probe_grid.h"      /* the same with several blocks in flight */
#include "engine/directory/superblock_file.h" /* stores the superblock */
#endif
