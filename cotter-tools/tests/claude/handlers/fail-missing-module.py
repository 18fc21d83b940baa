import json
import sys

import a_module_that_is_not_installed

a_module_that_is_not_installed.check(json.load(sys.stdin))
