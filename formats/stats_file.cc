#include "formats/stats_file.h"
