# bash completion for gradus.  Made by: gradus help --completions
_gradus()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} options= files=
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W '--help --version minimize fit compare train predict eval links explain plot bench devices help' -- "$word"))
        return
    fi
    case $command in
    minimize)
        options='--help --param --chain --group --schedule --bound --equal --below --starts --gradient --steps --until --trace --plot --dark --out --save --resume --json --data --def --separator --decimal --no-header --encoding --dtype --device --seed --threads'
        files=' --trace --plot --out --save --resume --def '
        ;;
    fit)
        options='--help --y --param --fix --weights --sigma --absolute-sigma --bound --exclude --missing --loss --intervals --derive --guess --starts --chain --steps --def --plot --log --dark --export --residuals --out --json --separator --decimal --no-header --encoding --device --seed --threads'
        files=' --def --plot --export --residuals --out '
        ;;
    compare)
        options='--help --json'
        files=' '
        ;;
    train)
        options='--help --target --task --model --chain --group --schedule --loss --class-weights --epochs --batch --validation --patience --stop-on --time --standardise --folds --seeds --importance --find-lr --plot --roc --calibration --dark --out --resume --save-every --trace --events --json --features --ignore --text --shape --separator --decimal --no-header --encoding --dtype --device --seed --threads'
        files=' --target --plot --roc --calibration --out --resume --trace --events '
        ;;
    predict)
        options='--help --out --proba --probabilities --score --target --roc --calibration --dark --json --separator --decimal --no-header --encoding --device --threads'
        files=' --out --target --roc --calibration '
        ;;
    eval)
        options='--help --param --data --def --separator --decimal --no-header --encoding --dtype --device --seed --threads --hessian --check --json'
        files=' --def '
        ;;
    links)
        options='--help --search --json'
        files=' '
        ;;
    explain)
        options='--help --size --dtype --device --separator --decimal --no-header --encoding --source'
        files=' '
        ;;
    plot)
        options='--help --out --expr --path --y --x --scale --label --title --dark --data --def --separator --decimal --no-header --encoding --dtype --device --seed --threads'
        files=' --out --def '
        ;;
    bench)
        options='--help --device --list --json'
        files=' '
        ;;
    devices)
        options='--help --json --threads'
        files=' '
        ;;
    help)
        options='--help --functions --manual --completions'
        files=' '
        ;;
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    elif [[ $word == *=@* ]]; then
        local name=${word%%@*}@
        COMPREPLY=($(compgen -f -P "$name" -- "${word#*@}"))
    elif [[ $before != --* || $files == *" $before "* ]]; then
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -o filenames -F _gradus gradus
