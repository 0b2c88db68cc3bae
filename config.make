# Adds to nginx's Makefile the rules that keep the headers with the Lua scripts
# and the waiting page up to date.  That of the scripts is replaced only when its
# content changes, so a stamp carries the time of the last run and an unchanged
# header rebuilds nothing.

wq_gen=$NGX_OBJS/wq
wq_header=$wq_gen/ngx_http_wq_scripts_generated.h
wq_lua=$ngx_addon_dir/lua

cat << END                                                    >> $NGX_MAKEFILE

$wq_gen/scripts.stamp:	\$(wildcard $wq_lua/*.lua $wq_lua/lib/*.lua) \\
	$ngx_addon_dir/util/gen-scripts.sh
	sh $ngx_addon_dir/util/gen-scripts.sh $wq_gen \\
		\$(wildcard $wq_lua/*.lua)
	touch \$@

$wq_header:	$wq_gen/scripts.stamp
	@:

$wq_gen/ngx_http_wq_page_generated.h:	$ngx_addon_dir/conf/waiting.html \\
	$ngx_addon_dir/util/gen-page.sh
	sh $ngx_addon_dir/util/gen-page.sh $wq_gen \\
		$ngx_addon_dir/conf/waiting.html

END
